"""The life of a CI job and of the Pod that runs it: queued → claimed → minted → running → done."""
