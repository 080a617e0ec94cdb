"""The node agent: a Mac as a Kubernetes Node, a Pod as a Tart VM."""
