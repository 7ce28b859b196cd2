-- The functions of scripts that check or charge a user's limits. They stand after the limiter's own functions.

-- set_plan_keys gives a plan the keys of a user's category.
local function set_plan_keys(plan, category, user)
  plan.state = partition .. plan.algorithm .. ':' .. category .. ':' .. user
  if plan.cap_log.max > 0 then plan.cap = partition .. 'u:' .. user end
  local named = plan.named
  for n = 1, #named do named[n].key = partition .. 'cap:' .. named[n].name .. ':' .. user end
  spread_for(plan, user)
  return plan
end

-- plan_of reads the plan of a user's category from ARGV, beginning at index i.
local function plan_of(i, category, user) return set_plan_keys(read_plan(i), category, user) end

-- channel_of returns the channel of a notification, which stands first in its payload; nil when it is not there.
local function channel_of(payload) return string.match(payload or '', '^{"c":"([^"]*)"') end

-- caps_of returns the names of the caps that count an admission of a plan, parted by spaces.
local function caps_of(plan)
  local names = {}
  for _, cap in ipairs(plan.named) do
    if counts_in(plan, cap) then names[#names + 1] = cap.name end
  end
  return table.concat(names, ' ')
end
