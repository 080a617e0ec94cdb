"""The Kubernetes-compatible API: what kubectl and our controllers talk to on one machine.

A request comes in through `http`, is taken apart by `calls` and `options`, judged by `access` and `rbac`, answered by
`lists` and `watches` (reading), `writes` and `objects` (writing: `admission`, `deletion`), or `reviews`. `kinds` says what
is served, `status` how a refusal reads, `selectors` who is selected. In the background: `namespace_controller`, `garbage_collector`,
`scheduler`, which follow all changes through `watch_fanout`.

The pure parts have folders of their own: `validation`, `builtin`, `managed_fields`, `patching`, `documents`.
"""
