"""Plimsoll for Python: `plimsoll.trace` reads traces of what the threads of a program allocate and lock, and
`plimsoll.sweep` makes sweeps of simulations of them on a cluster."""
