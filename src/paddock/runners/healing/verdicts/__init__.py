"""Verdicts: pure judgements on what four ledgers say about a Pod, a claim or a job. See docs/design/healing.md."""
