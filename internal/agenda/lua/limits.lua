-- What scripts need that judge or charge a user's limits; it stands after the limiter's functions.

local STATE_LETTERS = { [ROLLING] = 'l:', [FIXED_WINDOW] = 'f:', [TOKEN_BUCKET] = 'b:' }

-- place_plan gives a plan the keys of a user's category.
local function place_plan(plan, category, user)
  plan.state, plan.cap = partition .. STATE_LETTERS[plan.algorithm] .. category .. ':' .. user, partition .. 'u:' .. user
  return plan
end

-- plan_of reads the plan of a user's category from ARGV, from index i on.
local function plan_of(i, category, user) return place_plan(read_plan(i), category, user) end
