package queue

import (
	"context"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// Hold stops a waiting job until a person decides. It asks the worker of an active
// one to stop first. The state says which: Held or Cancelling.
func (s *Service) Hold(ctx context.Context, c Caller, id job.ID, reason string) (job.State, error) {
	if err := checkReason("reason", reason); err != nil {
		return 0, err
	}
	hold := &command.Hold{NS: c.Namespace, ID: id, Reason: reason, By: c.Principal}
	return s.actOnJob(ctx, c, jobAct(holdJob, id).with("reason", reason), hold)
}

// Approve lets a held job run.
func (s *Service) Approve(ctx context.Context, c Caller, id job.ID, comment string) (job.State, error) {
	return s.decide(ctx, c, approveJob, &command.Decide{ID: id, Approve: true, Comment: comment})
}

// Reject ends a held job: it is dead.
func (s *Service) Reject(ctx context.Context, c Caller, id job.ID, comment string) (job.State, error) {
	return s.decide(ctx, c, rejectJob, &command.Decide{ID: id, Comment: comment})
}

func (s *Service) decide(ctx context.Context, c Caller, verb jobVerb, cmd *command.Decide) (job.State, error) {
	if err := checkReason("comment", cmd.Comment); err != nil {
		return 0, err
	}
	cmd.NS, cmd.By = c.Namespace, c.Principal
	return s.actOnJob(ctx, c, jobAct(verb, cmd.ID).with("comment", cmd.Comment), cmd)
}

func checkReason(path, text string) error {
	var bad checker
	bad.text(path, text, ReasonBytesMax)
	return bad.err()
}
