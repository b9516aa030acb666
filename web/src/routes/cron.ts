// One chunk for both, with the words of cron expressions; see work.ts.
export { SchedulePage } from "./schedule";
export { SchedulesPage } from "./schedules";
