// Enough to be quick, few enough not to crowd out the workers' calls.
const AT_ONCE = 8;

/** Acts on all, some at a time; one that fails does not stop the others. Answers the failures. */
export async function each<Item>(
  items: readonly Item[],
  act: (item: Item) => Promise<unknown>,
): Promise<{ item: Item; error: unknown }[]> {
  const failed: { item: Item; error: unknown }[] = [];
  for (let from = 0; from < items.length; from += AT_ONCE) {
    await Promise.all(
      items
        .slice(from, from + AT_ONCE)
        .map((item) => act(item).catch((error: unknown) => failed.push({ item, error }))),
    );
  }
  return failed;
}
