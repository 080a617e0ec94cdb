"""How many runner Pods a pool has, what they look like, and the controller that makes and retires them."""
