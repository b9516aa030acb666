import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate, useRouteContext } from "@tanstack/react-router";
import { ScanEye } from "lucide-react";
import { useCopyAs } from "~/components/shell/copy-as";
import { EmptyState } from "~/components/ui/empty";
import { Page } from "~/components/ui/page";
import { Tabs } from "~/components/ui/tabs";
import { principalReads } from "~/data/principal-queries";
import { Everyone } from "~/features/review/everyone";
import { Explain } from "~/features/review/explain";
import { TestAs } from "~/features/review/test-as";
import { Permission } from "~/gen/corvo/cloud/v1/access_pb";
import { type AccessQuestion, reviewEquivalents } from "~/lib/access-equivalents";

const route = getRouteApi("/$tenant/settings/access");

/** Who may do what, what of it is used, and why. */
export function AccessPage() {
  const { tenant } = route.useParams();
  const { tab, show, ...question } = route.useSearch();
  const { access } = useRouteContext({ from: "/$tenant" });
  const navigate = useNavigate({ from: "/$tenant/settings/access" });
  const unreadable = access.blocked(Permission.ACCESS_REVIEW);
  const review = useQuery({ ...principalReads.review(tenant), enabled: !unreadable });
  useCopyAs(reviewEquivalents(tenant, tab === "explain" ? question : {}));
  const change = (part: AccessQuestion) =>
    void navigate({ search: (was) => ({ ...was, ...part }), replace: true, resetScroll: false });
  const asked = { tenant, principals: review.data, question, onChange: change };
  return (
    <Page description="Members, service accounts and keys with what they can do, and when they last did something.">
      {unreadable ? (
        <EmptyState icon={<ScanEye aria-hidden />} title="You can't view the access review">
          {unreadable}
        </EmptyState>
      ) : (
        <Tabs
          label="Access review"
          value={tab ?? "everyone"}
          onChange={(next) =>
            void navigate({
              search: (was) => ({ ...was, tab: next === "everyone" ? undefined : next }),
              replace: true,
            })
          }
          tabs={[
            {
              value: "everyone",
              label: "Everyone",
              content: (
                <Everyone
                  tenant={tenant}
                  review={review}
                  unused={show === "unused"}
                  onUnused={(unused) =>
                    void navigate({
                      search: (was) => ({ ...was, show: unused ? "unused" : undefined }),
                      replace: true,
                    })
                  }
                />
              ),
            },
            { value: "explain", label: "Explain", content: <Explain {...asked} /> },
            { value: "test", label: "Test as", content: <TestAs {...asked} /> },
          ]}
        />
      )}
    </Page>
  );
}
