#!/bin/sh
# Builds a kernel that runs as a process (user-mode Linux), for user-mode.sh, from the distribution's sources:
#   kernel.sh SOURCE DIRECTORY
# SOURCE is a file linux-source-*.tar.xz, DIRECTORY/linux the kernel. Needs gcc, make, flex, bison and bc.
set -eu
source=$1 directory=$2
here=$(cd "$(dirname "$0")" && pwd)
tree=$directory/tree
rm -rf "$tree"
mkdir -p "$tree/build"
# Not what only other machines have: it is most of the sources. All choices (Kconfig) are read, though.
tar -x -J -f "$source" -C "$tree" --strip-components=1 --exclude='*/Documentation/*/*' \
    --exclude='*/drivers/gpu/*.[ch]' --exclude='*/drivers/net/*.[ch]' --exclude='*/drivers/media/*.[ch]' \
    --exclude='*/sound/*.[ch]' --exclude='*/tools/testing/*' --exclude='*/tools/perf/*' \
    --exclude='*.dts' --exclude='*.dtsi'
cd "$tree"

# A page whose reference bit was cleared must not be readable, or the kernel never sees that it is used
# again. It is mapped as executable alone; but a processor reads what it may execute.
sed -i '/if (!pte_young(\*pte)) {/,/}/s/^\t*r = 0;/&\n\t\t\tx = 0;/' arch/um/kernel/tlb.c
grep -q 'x = 0;' arch/um/kernel/tlb.c

run() {
    make -s ARCH=um O=build KCONFIG_NOTIMESTAMP=1 "$@" >>"$directory/log" 2>&1 || {
        tail -n 20 "$directory/log"
        exit 1
    }
}
: >"$directory/log"
run KCONFIG_ALLCONFIG="$here/kernel.config" allnoconfig
# Choices that this kernel does not have are left out without a word.
grep '=y' "$here/kernel.config" | while read -r choice; do
    grep -qx "$choice" build/.config || {
        echo "these sources have no $choice"
        exit 1
    }
done
run -j"$(nproc)" linux
strip -o "$directory/linux.part" build/linux
mv "$directory/linux.part" "$directory/linux"
rm -rf "$tree"
