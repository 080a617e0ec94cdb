"""Everything on one machine: a Kubernetes-compatible API over a store in Postgres, and what starts them together."""
