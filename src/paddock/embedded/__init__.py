"""A Kubernetes-compatible API on one machine, over a store in Postgres, and the Postgres that it keeps running."""
