# For user-mode.sh and debian.sh: sets `preload` to a library that the kernel needs on this processor, if any.
preload=
if grep -qw amx_tile /proc/cpuinfo; then
    preload=$work/xstate.so
    cc -O2 -shared -fPIC -o "$preload" "$here/xstate.c" || missing "there is no C compiler (xstate.c)"
fi
