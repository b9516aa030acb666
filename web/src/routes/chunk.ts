// Pages that share most of what they are made of: one chunk, so that their many small
// parts do not each stand in the list of files that the shell carries.
export { ApprovalsPage } from "./approvals";
export { BatchPage } from "./batch";
export { BatchesPage } from "./batches";
export { ChainPage } from "./chain";
export { ChainsPage } from "./chains";
export { DeadPage } from "./dead";
export { UsagePage } from "./usage";
export { WorkersPage } from "./workers";
