# Fibers, channels, hashes, finalizers, closures and exceptions, each with much garbage.
class Tree
  getter left : Tree?
  getter right : Tree?

  def initialize(depth : Int32)
    if depth > 0
      @left = Tree.new(depth - 1)
      @right = Tree.new(depth - 1)
    end
  end

  def count : Int32
    1 + (@left.try(&.count) || 0) + (@right.try(&.count) || 0)
  end
end

class Finalized
  @@count = 0
  class_getter count

  def initialize(@name : String)
  end

  def finalize
    @@count += 1
  end
end

kept = Tree.new(14)
sum = 0_i64
300.times { |n| sum += Tree.new(8 + n % 5).count }
puts "trees: #{sum}"

table = {} of String => Array(Int32)
40_000.times { |n| table["key#{n}"] = [n, n % 97] }
40_000.times { |n| table.delete("key#{n}") unless n % 3 == 0 }
puts "table: #{table.size} #{table.sum { |_, value| value[1] }}"

# Each fiber has a stack of its own, on which it keeps a tree while others run.
channel = Channel(Tuple(Int32, Int32)).new
200.times do |n|
  spawn do
    own = Tree.new(6 + n % 3)
    text = [] of String
    10.times do |k|
      text << "fiber #{n} #{k}" * 20
      Fiber.yield
    end
    channel.send({n, own.count + text.sum(&.size)})
  end
end
total = 0_i64
200.times do
  n, size = channel.receive
  total += size * (n + 1)
end
puts "fibers: #{total}"

numbers = Channel(Int32).new(16)
squares = Channel(Array(Int32)).new(16)
4.times do
  spawn do
    while n = numbers.receive?
      squares.send([n, n * n % 1000])
    end
  end
end
spawn do
  20_000.times { |n| numbers.send(n) }
  numbers.close
end
puts "channels: #{(0...20_000).sum { squares.receive[1] }}"

threads = (0...4).map do |seed|
  result = [0_i64]
  thread = Thread.new do
    60.times { |n| result[0] += Tree.new(7 + (n + seed) % 4).count }
  end
  {thread, result}
end
puts "threads: #{threads.map { |thread, result| thread.join; result[0] }}"

# Threads that end soon, while others collect.
short = 0
20.times do
  all = (0...10).map do
    result = [0]
    {Thread.new { result[0] = (0...1000).map { |k| "text #{k}" }.size }, result}
  end
  all.each { |thread, result| thread.join; short += result[0] }
end
puts "short threads: #{short}"

5000.times { |n| Finalized.new("object #{n}") }
5.times { GC.collect; Tree.new(10) }
puts "finalized: #{Finalized.count > 4000}"

caught = 0
10_000.times do |n|
  begin
    raise "odd #{n}" if n.odd?
  rescue error
    caught += error.message.to_s.size
  end
end
puts "caught: #{caught}"

words = (0...50_000).map { |n| (n.to_u64 &* 2654435761_u64 % 1000003).to_s(16) }
puts "words: #{words.uniq.size} #{words.sort[100]} #{words.join.size}"

out, err = IO.pipe
process = Process.run("sh", {"-c", "echo from a child"}, output: Process::Redirect::Pipe) do |child|
  child.output.gets_to_end
end
puts "child: #{process.strip}"

adders = (0...20_000).map { |n| ->(k : Int32) { n + k } }
puts "closures: #{adders.sum(0_i64, &.call(1))}"
puts "kept: #{kept.count}"
