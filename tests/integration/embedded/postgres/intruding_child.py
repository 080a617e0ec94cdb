"""Tries to log in as another user, and says what came of it: intruding_child.py DSN UID."""

import os
import sys

import psycopg

os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
try:
    psycopg.connect(sys.argv[1]).close()
except psycopg.OperationalError as error:
    print(error)
else:
    print("logged in")
