"""The Kubernetes-compatible API: what kubectl and our controllers talk to on one machine.

Pure parts: `kinds` (what is served), `schema` (validate, default, prune), `apply` (server-side apply and field
ownership), `patches`, `selectors`, `tables`, `discovery`, `openapi`, `protobuf`, `status` (errors). Effects: `objects`
(the life of one object over the store), `http` (the routes), `tokens` (who may ask), `garbage`, `binder`.
"""
