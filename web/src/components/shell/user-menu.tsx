import { LazyMenu } from "./lazy-menu";

interface UserMenuProps {
  email: string;
  role: string;
  onShortcuts: () => void;
}

export function UserMenu(props: UserMenuProps) {
  return (
    <LazyMenu
      load={async () => (await import("./menus")).AccountMenu}
      props={props}
      button={{
        "aria-label": `Account ${props.email}`,
        className:
          "grid size-8 shrink-0 place-items-center rounded-full border border-line-strong bg-accent-soft text-12 font-semibold text-accent-text uppercase hover:border-ink-3",
        children: props.email.slice(0, 1),
      }}
    />
  );
}
