// The frame of the operators' pages, and where each of them is: the shell, which tenants
// load, knows this file alone.
import { lazyRouteComponent } from "@tanstack/react-router";
import { part } from "~/data/reach";

export { OperatorFrame as Frame } from "./operator-frame";

export const Plan = lazyRouteComponent(() => part(() => import("./operator-plan")), "OperatorPlanPage");
export const Plans = lazyRouteComponent(() => part(() => import("./operator-plans")), "OperatorPlansPage");
export const Reconciliation = lazyRouteComponent(
  () => part(() => import("./operator-reconciliation")),
  "ReconciliationPage",
);
export const Tenant = lazyRouteComponent(() => part(() => import("./operator-tenant")), "OperatorTenantPage");
export const Tenants = lazyRouteComponent(
  () => part(() => import("./operator-tenants")),
  "OperatorTenantsPage",
);
