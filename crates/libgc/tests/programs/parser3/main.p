@main[]
$kept[^make(10)]
trees: ^trees[]
table: ^table[]
$text[^text[]]
text: ^text.length[]
$words[^text.replace[1;one]]
words: ^words.length[]
kept: ^count[$kept]

@trees[][n;tree]
$result(0)
^for[n](1;400){
	$tree[^make(6 + $n % 4)]
	^result.inc(^count[$tree])
	^if($n % 20 == 0){^memory:compact[]}
}

@table[][n;table;bytes;key;value]
$table[^hash::create[]]
^for[n](1;19000){$table.[key$n][value $n]}
^memory:compact[]
$bytes(0)
^table.foreach[key;value]{^bytes.inc(^value.length[])}
$result[^table._count[] $bytes]

@text[][n]
$result[]
^for[n](1;3000){$result[${result}$n]}
^memory:compact[]

@make[depth]
$result[^hash::create[]]
^if($depth > 0){
	$result.left[^make($depth - 1)]
	$result.right[^make($depth - 1)]
}

@count[tree]
$result(1)
^if($tree.left){
	$result(^count[$tree.left] + ^count[$tree.right])
}
