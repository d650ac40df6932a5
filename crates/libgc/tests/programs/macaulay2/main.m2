-- Rings, ideals, matrices, hash tables and strings; all output is of values, none of times.
R = QQ[a..f]
I = ideal(a*b-c*d, b*c-d*e, a^3-b*f^2, c^2*d-e*f^2, a*d*f-b^2*c)
G = gens gb I
print numcols G
print betti res coker gens I
print dim I
print degree I
S = ZZ/32003[x_0..x_7]
J = ideal apply(10, n -> sum(8, k -> (1 + (n * k + 3) % 17) * x_k * x_((k + n) % 8)))
print numcols gens gb J
print hilbertPolynomial coker gens gb ideal(x_0^2, x_1^3, x_2*x_3)
M = matrix apply(12, i -> apply(12, j -> 1 / (i + j + 1)))
print det M
print (inverse M)_(0, 0)
T = new MutableHashTable
scan(40000, n -> T#("key" | toString n) = {n, n^2})
scan(40000, n -> if n % 3 != 0 then remove(T, "key" | toString n))
print sum(values T, last)
print length concatenate apply(20000, toString)
print sum(2000, n -> numgens ideal(random(2, S), random(1, S)))
print factor 123456789012345678901234567890
print (700! % 1000000007)
tree = depth -> if depth == 0 then null else {tree(depth - 1), tree(depth - 1)}
count = t -> if t === null then 1 else count t#0 + count t#1
print sum(60, n -> count tree(8 + n % 4))
collectGarbage()
exit 0
