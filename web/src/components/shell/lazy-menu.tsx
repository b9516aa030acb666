import { type ComponentProps, type ComponentType, type ReactElement, useState } from "react";

/** Properties that a lazily loaded menu gets besides its own. */
export interface LateMenu {
  trigger: ReactElement;
  defaultOpen: boolean;
}

interface LazyMenuProps<P> {
  /** The button; drawn the same before and after the menu's code is there. */
  button: ComponentProps<"button">;
  load: () => Promise<ComponentType<P & LateMenu>>;
  props: P;
}

/**
 * A menu whose code comes when somebody reaches for it. Until then its trigger is a
 * plain button; it is exchanged by a click only, when the focus moves anyway.
 */
export function LazyMenu<P extends object>({ button, load, props }: LazyMenuProps<P>) {
  const [Menu, setMenu] = useState<ComponentType<P & LateMenu> | null>(null);
  if (Menu) return <Menu {...props} trigger={<button type="button" {...button} />} defaultOpen />;
  const preload = () => void load();
  return (
    <button
      type="button"
      {...button}
      aria-haspopup="menu"
      aria-expanded={false}
      onPointerEnter={preload}
      onFocus={preload}
      onClick={() => void load().then((loaded) => setMenu(() => loaded))}
    />
  );
}
