import { useChange } from "~/data/admin-queries";

/**
 * Goes to a page of the payment provider. The call itself goes there: what asked for it may be
 * gone from the page when the call has ended and lists are read again.
 */
export function useProviderPage(tenant: string, open: () => Promise<{ url: string }>) {
  return useChange(tenant, async () => {
    const { url } = await open();
    window.location.assign(url);
  });
}
