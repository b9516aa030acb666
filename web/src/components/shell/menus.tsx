import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { Keyboard, LogOut, Monitor, Moon, Plus, Settings2, ShieldCheck, Sun, UserRound } from "lucide-react";
import { Menu, MenuItem, MenuLabel, MenuRadio, MenuSeparator } from "~/components/ui/menu";
import { toast } from "~/components/ui/toast";
import { roleNames } from "~/data/access";
import { control, describeError } from "~/data/control";
import { reads } from "~/data/queries";
import { tokens } from "~/data/token";
import type { TenantAccess } from "~/gen/corvo/cloud/v1/auth_pb";
import { setTheme, useTheme } from "~/lib/theme";
import type { LateMenu } from "./lazy-menu";
import { Monogram } from "./monogram";

interface TenantMenuProps extends LateMenu {
  tenant: string;
  tenants: readonly TenantAccess[];
}

export function TenantMenu({ tenant, tenants, ...menu }: TenantMenuProps) {
  return (
    <Menu className="w-60" {...menu}>
      <MenuLabel>Tenants</MenuLabel>
      {tenants.map((entry) => (
        <MenuItem
          key={entry.tenantId}
          icon={<Monogram name={entry.tenant} className="size-5" />}
          selected={entry.tenant === tenant}
          render={<Link to="/$tenant" params={{ tenant: entry.tenant }} />}
        >
          {entry.tenant} <span className="text-12 text-ink-3">{roleNames(entry.roles)}</span>
        </MenuItem>
      ))}
      <MenuSeparator />
      <MenuItem icon={<Plus aria-hidden />} render={<Link to="/signup" />}>
        New tenant
      </MenuItem>
    </Menu>
  );
}

interface NamespaceMenuProps extends LateMenu {
  tenant: string;
  namespace: string;
}

export function NamespaceMenu({ tenant, namespace, ...menu }: NamespaceMenuProps) {
  const { data } = useQuery(reads.namespaces(tenant));
  return (
    <Menu className="w-60" {...menu}>
      <MenuLabel>Namespaces</MenuLabel>
      {(data ?? []).map((entry) => (
        <MenuItem
          key={entry.id}
          selected={entry.name === namespace}
          render={<Link to="/$tenant/$namespace" params={{ tenant, namespace: entry.name }} />}
        >
          {entry.name}
        </MenuItem>
      ))}
      <MenuSeparator />
      <MenuItem
        icon={<Settings2 aria-hidden />}
        render={<Link to="/$tenant/settings/namespaces" params={{ tenant }} />}
      >
        Manage namespaces
      </MenuItem>
    </Menu>
  );
}

interface AccountMenuProps extends LateMenu {
  email: string;
  role: string;
  onShortcuts: () => void;
}

export function AccountMenu({ email, role, onShortcuts, ...menu }: AccountMenuProps) {
  const theme = useTheme();
  const { tenant } = useParams({ strict: false });
  const { data: identity } = useQuery(reads.identity());
  const client = useQueryClient();
  const navigate = useNavigate();

  async function signOut() {
    try {
      await control.auth.logout({});
    } catch (error) {
      toast({ kind: "error", title: "Couldn't sign out", description: describeError(error) });
      return;
    }
    tokens.clear();
    client.clear();
    await navigate({ to: "/signin" });
  }

  return (
    <Menu align="end" className="w-60" {...menu}>
      <div className="px-2 py-1.5">
        <div className="truncate text-13 font-medium">{email}</div>
        <div className="text-12 text-ink-3">{role}</div>
      </div>
      <MenuSeparator />
      {tenant ? (
        <MenuItem
          icon={<UserRound aria-hidden />}
          render={<Link to="/$tenant/settings/account" params={{ tenant }} />}
        >
          Your account
        </MenuItem>
      ) : null}
      {identity?.operatorRole ? (
        <MenuItem icon={<ShieldCheck aria-hidden />} render={<Link to="/operator" />}>
          Operator pages
        </MenuItem>
      ) : null}
      <MenuRadio
        label="Theme"
        value={theme}
        onChange={setTheme}
        options={[
          { value: "system", label: "System", icon: <Monitor aria-hidden /> },
          { value: "light", label: "Light", icon: <Sun aria-hidden /> },
          { value: "dark", label: "Dark", icon: <Moon aria-hidden /> },
        ]}
      />
      <MenuSeparator />
      <MenuItem icon={<Keyboard aria-hidden />} shortcut="?" onSelect={onShortcuts}>
        Keyboard shortcuts
      </MenuItem>
      <MenuItem icon={<LogOut aria-hidden />} onSelect={() => void signOut()}>
        Sign out
      </MenuItem>
    </Menu>
  );
}
