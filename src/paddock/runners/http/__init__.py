"""What the dispatch process serves besides dispatch itself: the internal interface, and what page and command line read."""
