"""The simulated world as one process: Scaleway, the Macs, Tart and GitHub, which go on when Paddock does not."""
