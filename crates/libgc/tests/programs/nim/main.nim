## Trees, tables, strings, closures and threads over the collector's memory.
import std/[tables, strutils, sequtils, sets, algorithm]

type
  Tree = ref object
    left, right: Tree
    name: string

proc make(depth: int): Tree =
  if depth > 0:
    result = Tree(left: make(depth - 1), right: make(depth - 1), name: $depth)

proc count(tree: Tree): int =
  if tree.isNil: 1 else: count(tree.left) + count(tree.right)

let kept = make(15)
var sum = 0
for n in 0 ..< 300:
  sum += count(make(8 + n mod 5))
echo "trees: ", sum

var table: Table[string, seq[int]]
for n in 0 ..< 60_000:
  table["key" & $n] = @[n, n * n]
for n in 0 ..< 60_000:
  if n mod 3 != 0:
    table.del("key" & $n)
var squares = 0
for value in table.values:
  squares += value[1]
echo "table: ", table.len, " ", squares

var text = ""
for n in 0 ..< 50_000:
  text.add($n)
  if n mod 100 == 0:
    text = text.replace("9", "nine")
    if text.len > 20_000:
      text = text[^1000 .. ^1]
echo "text: ", text.len

let words = toSeq(0 ..< 50_000).mapIt(toHex(it * 2654435761, 8))
echo "words: ", words.toHashSet.len, " ", words.sorted[100]

proc adder(n: int): proc (k: int): int =
  result = proc (k: int): int = n + k
var closures: seq[proc (k: int): int]
for n in 0 ..< 20_000:
  closures.add(adder(n))
var added = 0
for closure in closures:
  added += closure(1)
echo "closures: ", added

var caught = 0
for n in 0 ..< 10_000:
  try:
    if n mod 2 == 1:
      raise newException(ValueError, "odd " & $n)
  except ValueError as error:
    caught += error.msg.len
echo "caught: ", caught
echo "kept: ", count(kept)
