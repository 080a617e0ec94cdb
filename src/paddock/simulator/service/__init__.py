"""What the simulated services, the cloud and GitHub, have in common: answers, faults on order, an audit and a saved state."""
