"""What the page and the command line both show, decided once."""
