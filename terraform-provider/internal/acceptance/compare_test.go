package acceptance

import "github.com/hashicorp/terraform-plugin-testing/compare"

func compareSame() compare.ValueComparer   { return compare.ValuesSame() }
func compareDiffer() compare.ValueComparer { return compare.ValuesDiffer() }
