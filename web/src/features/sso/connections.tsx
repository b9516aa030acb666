import { Link } from "@tanstack/react-router";
import { Badge } from "~/components/ui/badge";
import { Card } from "~/components/ui/card";
import { Table } from "~/components/ui/table";
import { type SsoConnection, SsoType } from "~/gen/corvo/cloud/v1/sso_pb";
import { statusOf } from "./form";

interface ConnectionsProps {
  tenant: string;
  connections: readonly SsoConnection[];
  /** The id of the one that is shown below. */
  chosen: string | undefined;
}

/** All connections of a tenant, to choose one. */
export function Connections({ tenant, connections, chosen }: ConnectionsProps) {
  return (
    <Card flush title="Connections">
      <Table
        label="Connections"
        rows={connections}
        rowKey={({ id }) => id}
        rowClass={({ id }) => (id === chosen ? "bg-sunken" : undefined)}
        columns={[
          {
            id: "name",
            header: "Name",
            phone: "title",
            cell: ({ id, name }) => (
              <Link
                to="/$tenant/settings/sso"
                params={{ tenant }}
                search={{ connection: id }}
                activeProps={{}}
                aria-current={id === chosen ? "true" : undefined}
                className="inline-flex min-h-6 items-center font-medium wrap-anywhere text-accent-text underline-offset-2 hover:underline"
              >
                {name}
              </Link>
            ),
          },
          {
            id: "protocol",
            header: "Protocol",
            width: "w-36",
            cell: ({ type }) => (type === SsoType.SAML ? "SAML 2.0" : "OpenID Connect"),
          },
          {
            id: "status",
            header: "Status",
            width: "w-36",
            phone: "corner",
            cell: (connection) => {
              const { word, tone } = statusOf(connection);
              return <Badge tone={tone}>{word}</Badge>;
            },
          },
        ]}
      />
    </Card>
  );
}
