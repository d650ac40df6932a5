// Holds MiB of objects, half of them in large arrays, and says what the engine counts.
const mib = Number(process.argv[2]);
const small = [];
for (let i = 0; i < (mib * 1048576) / 2 / 64; i++) small.push({ a: i, b: i + 0.5, c: null });
const large = [];
for (let i = 0; i < mib / 2; i++) large.push(new Array(131072).fill(i));
function work(x) { let s = 0; for (let i = 0; i < 1000; i++) s += x ^ i; return s; }
for (let i = 0; i < 100000; i++) work(i);
if (global.gc) global.gc();
const v8 = require("v8");
const spaces = v8.getHeapSpaceStatistics();
const says = spaces.map((s) => `${s.space_name}=${s.physical_space_size}`);
const sizes = spaces.map((s) => `${s.space_name}_size=${s.space_size}`);
const all = process.memoryUsage();
console.log(`heap=${all.heapTotal} used=${all.heapUsed} ${says.join(" ")} ${sizes.join(" ")}`);
process.stdin.on("data", () => {});
process.stdin.on("end", () => console.log(small.length + large.length));
