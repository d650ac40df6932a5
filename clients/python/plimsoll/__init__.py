"""Plimsoll for Python: `plimsoll.trace` reads traces of what the threads of a program allocate and lock."""
