package provider

import (
	"errors"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// Attributes that several resources have.

// stableText is computed once and stays.
func stableText(about string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}, MarkdownDescription: about}
}

// changingText is computed with every change.
func changingText(about string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: about}
}

// fixedText is given once: another one is another resource.
func fixedText(required bool, about string, validators ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{
		Required: required, Optional: !required, Validators: append([]validator.String{stringvalidator.LengthAtLeast(1)}, validators...),
		PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}, MarkdownDescription: about,
	}
}

func describedAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true, Computed: true, Default: stringdefault.StaticString(""), MarkdownDescription: "What it is for, in a few words. Default: empty.",
	}
}

// maskOf names the fields that are not the same any more.
func maskOf(same map[string]bool) *fieldmaskpb.FieldMask {
	m := &fieldmaskpb.FieldMask{}
	for name, is := range same {
		if !is {
			m.Paths = append(m.Paths, name)
		}
	}
	slices.Sort(m.GetPaths())
	return m
}

// importable says how to go on when a name belongs to something that this state does not
// know.
func importable(err error, id string) error {
	var e *cloud.Error
	if errors.As(err, &e) && e.Kind == cloud.Exists {
		e.Help = "To manage the existing one, import it: terraform import <address> " + id
	}
	return err
}

// withHelp says what to do about a refusal, in the words of Terraform.
func withHelp(err error, reason, help string) error {
	var e *cloud.Error
	if errors.As(err, &e) && e.Reason == reason {
		e.Help = help
	}
	return err
}
