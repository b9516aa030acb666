import { ConfirmDialog } from "~/components/ui/dialog";

/** The confirmation dialog as a part that is loaded when somebody needs it. */
export default ConfirmDialog;
