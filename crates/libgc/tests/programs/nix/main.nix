# Attribute sets, lists, strings and functions, built lazily and thrown away; needs no store.
let
  inherit (builtins) add attrNames concatStringsSep elemAt filter foldl' genList hashString length listToAttrs map mapAttrs
    replaceStrings seq sort stringLength substring toJSON toString tryEval;
  sum = foldl' add 0;
  range = n: genList (k: k) n;
  mod = a: b: a - b * (a / b);

  tree = depth: if depth == 0 then null else { left = tree (depth - 1); right = tree (depth - 1); };
  count = node: if node == null then 1 else count node.left + count node.right;
  kept = tree 13;

  table = listToAttrs (map (n: { name = "key${toString n}"; value = { square = n * n; text = "value ${toString n}"; }; }) (range 30000));
  changed = mapAttrs (name: value: value // { name = name; half = value.square / 2; }) table;

  fix = f: let self = f self; in self;
  package = n: fix (self: {
    name = "package-${toString n}";
    version = "${toString (n / 10)}.${toString (mod n 10)}";
    inputs = map (k: "package-${toString k}") (filter (k: k < n) [ (n / 2) (n / 3) (n - 1) ]);
    full = "${self.name}-${self.version}";
    closure = concatStringsSep " " (self.inputs ++ [ self.full ]);
  });
  packages = map package (range 4000);

  primes = limit:
    let
      sieve = list: if list == [ ] then [ ] else
        let head = builtins.head list; in [ head ] ++ sieve (filter (n: mod n head != 0) (builtins.tail list));
    in sieve (genList (n: n + 2) limit);
in
{
  trees = sum (map (n: count (tree (6 + mod n 5))) (range 400));
  table = sum (map (name: changed.${name}.half + stringLength changed.${name}.text) (attrNames changed));
  sorted = elemAt (sort (a: b: hashString "md5" (toString a) < hashString "md5" (toString b)) (range 8000)) 4000;
  packages = stringLength (concatStringsSep "\n" (map (p: p.closure) packages));
  json = stringLength (toJSON (map (p: { inherit (p) name version inputs; }) packages));
  primes = foldl' (a: b: a + b) 0 (primes 1500);
  text = stringLength (foldl' (text: n: if stringLength text > 5000 then substring 0 10 text else text + replaceStrings [ "1" ] [ "one" ] (toString n)) "" (range 20000));
  caught = length (filter (n: !(tryEval (if mod n 2 == 1 then throw "odd" else n)).success) (range 3000));
  kept = seq (count kept) (count kept);
}
