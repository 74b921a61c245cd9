"""Imported by nothing but the server that workers are forked from: signals to the process group are not for it.

A scheduler, or `timeout`, signals a whole group. The parent then ends the run in order, for which it needs its workers'
server alive.
"""

import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
