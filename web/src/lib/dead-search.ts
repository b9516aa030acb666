import { BadSearch, searchOf, text } from "./search";

/** Which dead jobs a link shows: of a queue, of one error, or all. */
export const parseDeadSearch = searchOf((raw) => {
  const group = text(raw, "group");
  if (group !== undefined && !/^[0-9a-f]{16}$/.test(group))
    throw new BadSearch("group", group, "the ID of an error group, for example 5f0e6c9a1b2d3c4e");
  return { queue: text(raw, "queue"), group };
});
