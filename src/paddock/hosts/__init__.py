"""The life of a rented Mac: pooled → claimed → bootstrapped → ready → released → wiped → pooled again."""
