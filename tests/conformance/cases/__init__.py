"""The cases: each states one thing that a Kubernetes API does, whoever serves it.

A case is an async function `test_…(api)` in a module of this folder.
"""
