"""Make the server that workers are forked from ignore signals to the process group; only that server imports this.

A scheduler, or `timeout`, signals a whole group. The parent then stops the run cleanly, and needs this server for it.
"""

import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
