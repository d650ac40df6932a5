# Attribute sets that live, and garbage beside them; needs no store.
{ sets, rounds }:
let
  inherit (builtins) elemAt foldl' genList mapAttrs;
  mod = a: b: a - b * (a / b);
  range = n: genList (k: k) n;
  set = n: { name = "set-${toString n}"; value = n; next = mod (n * 7919 + 1) sets; };
  live = map set (range sets);
  # Each element is evaluated before the rounds begin.
  filled = foldl' (sum: it: builtins.seq it.name (builtins.seq it.next (sum + it.value))) 0 live;
  round = sum: n:
    let
      it = elemAt live (mod (n * 104729) sets);
      changed = mapAttrs (name: value: { inherit name value; }) (it // { inherit n; });
    in
    mod (sum + changed.next.value + changed.n.value) 1000000007;
in
"{\"checksum\":${toString (foldl' round filled (range rounds))}}"
