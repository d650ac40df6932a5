#!/bin/sh
# Builds target/plimsoll-memory.jar with javac and jar alone, and its documentation.
# CAFFEINE names Caffeine's jar (3 or later). Without it the package io.plimsoll.memory.cache is left
# out, as is its place in the module. With JUNIT, the jar of JUnit's console launcher, it runs the tests,
# which need Caffeine, and PLIMSOLLD for those with a real broker.
set -eu
cd "$(dirname "$0")"
out=target/plain
rm -rf "$out"
mkdir -p "$out/sources" "$out/classes" "$out/tests"
cp -r src/main/java/. "$out/sources"
if [ -z "${CAFFEINE:-}" ]; then
  rm -r "$out/sources/io/plimsoll/memory/cache"
  sed -i '/caffeine/d; /memory\.cache/d; /^@Suppress/d' "$out/sources/module-info.java"
fi
find "$out/sources" -name '*.java' > "$out/list"
javac --release 17 -Xlint:all -Werror -d "$out/classes" ${CAFFEINE:+--module-path "$CAFFEINE"} "@$out/list"
jar --create --file target/plimsoll-memory.jar --module-version 0.1.0 -C "$out/classes" .
javadoc -quiet -Xdoclint:all -Werror -d "$out/javadoc" ${CAFFEINE:+--module-path "$CAFFEINE"} \
  --module-source-path io.plimsoll.memory="$out/sources" --module io.plimsoll.memory
echo "made target/plimsoll-memory.jar"
if [ -n "${CAFFEINE:-}" ] && [ -n "${JUNIT:-}" ]; then
  classes=target/plimsoll-memory.jar:$CAFFEINE:$JUNIT
  find src/test/java -name '*.java' > "$out/list"
  javac --release 17 -d "$out/tests" -cp "$classes" "@$out/list"
  java -Xmx256m -cp "$out/tests:$classes" org.junit.platform.console.ConsoleLauncher execute \
    --scan-class-path "$out/tests" --details=tree --disable-banner
fi
