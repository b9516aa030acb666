import { computePosition, flip, offset, type Placement, shift } from "@floating-ui/dom";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { createPortal } from "react-dom";
import { Kbd } from "./kbd";

const DELAY_MS = 350;
// Moving from one hint to the next shows it at once for this long.
const WARM_MS = 400;
// Time to reach the hint itself with the pointer, which keeps it (WCAG 1.4.13).
const LEAVE_MS = 120;

interface Tip {
  anchor: HTMLElement;
  text: string;
  keys: string | undefined;
  side: Placement;
}

/** Shows the data-tip of what the pointer or the focus is on. */
export default function TooltipLayer() {
  const [tip, setTip] = useState<Tip | null>(null);
  const box = useRef<HTMLDivElement>(null);

  useEffect(() => {
    let timer = 0;
    let shownUntil = 0;
    let current: HTMLElement | null = null;

    function show(anchor: HTMLElement, wait: number) {
      window.clearTimeout(timer);
      current = anchor;
      timer = window.setTimeout(() => {
        if (!anchor.isConnected) return;
        const text = anchor.dataset.tip;
        if (text)
          setTip({
            anchor,
            text,
            keys: anchor.dataset.tipKeys,
            side: (anchor.dataset.tipSide as Placement) ?? "top",
          });
      }, wait);
    }

    function hide(wait: number) {
      window.clearTimeout(timer);
      if (current) shownUntil = Date.now() + WARM_MS;
      current = null;
      timer = window.setTimeout(() => setTip(null), wait);
    }

    function anchorOf(target: EventTarget | null): HTMLElement | null {
      return target instanceof Element ? target.closest<HTMLElement>("[data-tip]") : null;
    }

    function onOver(event: PointerEvent) {
      if (event.pointerType === "touch") return;
      if (box.current?.contains(event.target as Node)) {
        window.clearTimeout(timer);
        return;
      }
      const anchor = anchorOf(event.target);
      if (anchor === current && anchor) return;
      if (anchor) show(anchor, Date.now() < shownUntil ? 0 : DELAY_MS);
      else if (current || box.current) hide(LEAVE_MS);
    }

    function onFocus(event: FocusEvent) {
      const anchor = anchorOf(event.target);
      if (anchor?.matches(":focus-visible")) show(anchor, 0);
    }

    const away = () => hide(0);
    function onKey(event: KeyboardEvent) {
      if (event.key === "Escape") away();
    }

    document.addEventListener("pointerover", onOver);
    document.addEventListener("pointerdown", away);
    document.addEventListener("focusin", onFocus);
    document.addEventListener("focusout", away);
    document.addEventListener("keydown", onKey);
    document.addEventListener("scroll", away, { capture: true, passive: true });
    return () => {
      window.clearTimeout(timer);
      document.removeEventListener("pointerover", onOver);
      document.removeEventListener("pointerdown", away);
      document.removeEventListener("focusin", onFocus);
      document.removeEventListener("focusout", away);
      document.removeEventListener("keydown", onKey);
      document.removeEventListener("scroll", away, { capture: true });
    };
  }, []);

  useLayoutEffect(() => {
    const element = box.current;
    if (!tip || !element) return;
    void computePosition(tip.anchor, element, {
      strategy: "fixed",
      placement: tip.side,
      middleware: [offset(6), flip(), shift({ padding: 8 })],
    }).then(({ x, y }) => {
      element.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
      element.style.opacity = "1";
    });
  }, [tip]);

  if (!tip) return null;
  return createPortal(
    <div
      ref={box}
      role="tooltip"
      key={tip.text}
      className="fixed top-0 left-0 z-70 flex w-max max-w-72 items-center gap-2 rounded-md bg-primary px-2 py-1 text-12 whitespace-pre-line text-primary-on opacity-0 shadow-2 transition-opacity duration-100"
    >
      <span className="nums">{tip.text}</span>
      {tip.keys ? <Kbd keys={tip.keys} tone="inverse" /> : null}
    </div>,
    document.body,
  );
}
