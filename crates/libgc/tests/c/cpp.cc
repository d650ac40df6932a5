// What is in the C++ headers alone, and needs no second library.
#include "check.h"
#include <gc/gc_allocator.h>
#include <list>
#include <map>
#include <string>
#include <vector>

static int died;

struct Watched {
    long value;
    explicit Watched(long value) : value(value) {}
};

static void on_death(void *, void *) { died++; }

typedef std::vector<Watched *, gc_allocator<Watched *>> Objects;
typedef std::list<long, gc_allocator<long>> Numbers;
typedef std::map<long, Watched *, std::less<long>, gc_allocator<std::pair<const long, Watched *>>> Map;
typedef std::basic_string<char, std::char_traits<char>, gc_allocator<char>> Text;

static Objects *objects;
static Numbers *numbers;
static Map *map;

static Watched *watched(long value) {
    Watched *object = new (GC_MALLOC(sizeof(Watched))) Watched(value);
    GC_REGISTER_FINALIZER(object, on_death, 0, 0, 0);
    return object;
}

static void fill() {
    for (long i = 0; i < 1000; i++) {
        objects->push_back(watched(i));
        numbers->push_back(i);
        (*map)[i * 37 % 1000] = watched(i);
    }
}

static long sum() {
    long sum = 0;
    for (Watched *object : *objects)
        sum += object->value;
    for (long number : *numbers)
        sum += number;
    for (auto &pair : *map)
        sum += pair.second->value;
    return sum;
}

int main() {
    GC_INIT();
    // In static data of the collector's own choice: uncollectable memory.
    objects = new (GC_MALLOC_UNCOLLECTABLE(sizeof(Objects))) Objects;
    numbers = new (GC_MALLOC_UNCOLLECTABLE(sizeof(Numbers))) Numbers;
    map = new (GC_MALLOC_UNCOLLECTABLE(sizeof(Map))) Map;
    below(fill);
    collect_well();
    CHECK(died == 0);
    SHOW(sum());
    map->clear();
    collect_well();
    CHECK(MOST(died, 1000) && died <= 1000);
    objects->clear();
    objects->shrink_to_fit();
    collect_well();
    CHECK(MOST(died, 2000));

    // Without references: what is in there is not looked at.
    std::vector<GC_word, gc_allocator<GC_word>> words(1000, 5);
    CHECK(GC_get_heap_size() > 0 && GC_base(words.data()) != nullptr);
    std::vector<Watched *, traceable_allocator<Watched *>> traced;
    died = 0;
    for (long i = 0; i < 1000; i++)
        traced.push_back(watched(i));
    collect_well();
    CHECK(died == 0);
    Text text("some words that are too long for a place inside of the string");
    for (int i = 0; i < 100; i++)
        text += text.substr(0, 10);
    GC_gcollect();
    CHECK(text.size() == 1061 && text.substr(1051) == "some words");
    gc_allocator<int> one;
    gc_allocator<long> other(one);
    CHECK(one == gc_allocator<int>(other));
    int *numbers = one.allocate(100);
    numbers[99] = 1;
    one.deallocate(numbers, 100);
    traceable_allocator<int> traceable;
    numbers = traceable.allocate(100);
    traceable.deallocate(numbers, 100);
    return 0;
}
