"""A thin controller runtime in controller-runtime's vocabulary, sized for one reader.

What is there: `resource` says what a kind is, `objects` and `builtin` how one looks, `errors` what the server may answer.
How to ask: `config` and `credentials` say where and as whom, `connection` sends bytes, `client` speaks the verbs (`calls`
and `decoding` are its two sides), and `reader` tells what was read fresh from what was read from a cache.
How to follow: `watch` is one stream, `informer` keeps a `store` in step with the server, `diagnosis` says why it cannot.
How to act: `workqueue` and `controller` turn a change into a reconcile, `leader` says who may act, `manager` starts and
stops all of it, `conditions` and `events` tell people. `crd` turns a kind into its CustomResourceDefinition, and
`version` is the Kubernetes version that Paddock names.
"""
