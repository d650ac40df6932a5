// Objects of libobjc's collected kind: their class tells the collector where references are.
#include <objc/Object.h>
#include <objc/runtime.h>
#include <gc/gc.h>
#include <stdio.h>
#include <string.h>

@interface Tree : Object
{
@public
  Tree *left, *right;
  char *name;
  long number;
}
+ (id) withDepth: (int) depth;
- (long) count;
@end

@implementation Tree
+ (id) withDepth: (int) depth
{
  if (depth == 0)
    return nil;
  Tree *tree = class_createInstance (self, 0);
  tree->left = [self withDepth: depth - 1];
  tree->right = [self withDepth: depth - 1];
  tree->name = GC_MALLOC_ATOMIC (16);
  snprintf (tree->name, 16, "tree %d", depth);
  tree->number = depth;
  return tree;
}
- (long) count
{
  if (strlen (name) != (size_t) (number > 9 ? 7 : 6))
    printf ("a name is wrong: %s\n", name);
  return number + (left ? [left count] : 0) + (right ? [right count] : 0);
}
@end

int
main (void)
{
  GC_INIT ();
  Tree *kept = [Tree withDepth: 14];
  long sum = 0;
  for (int n = 0; n < 400; n++)
    sum += [[Tree withDepth: 6 + n % 6] count];
  printf ("trees: %ld\n", sum);
  printf ("kept: %ld\n", [kept count]);
  return 0;
}
