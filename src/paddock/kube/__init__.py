"""A thin controller runtime in controller-runtime's vocabulary, sized for one reader.

`resource` says what a kind is, `objects` how one looks, `errors` what the server may answer, `client` how to ask it,
`reader` what was read fresh and what from a cache, `informer` how a cache follows the server, `workqueue` and
`controller` how a change becomes a reconcile, `leader` who may act, `manager` how all of it starts and stops, and `crd`
how a kind becomes a CustomResourceDefinition.
"""
