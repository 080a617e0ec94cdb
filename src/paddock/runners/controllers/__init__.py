"""Fetch, decide, act, requeue: one module a controller, the decisions themselves are beside this folder."""
