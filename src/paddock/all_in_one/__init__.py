"""`paddock up`: every part of Paddock on one machine, and with `--simulate` the outside world, too."""
