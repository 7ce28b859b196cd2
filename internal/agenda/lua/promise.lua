-- promise reports where notifications of a user stand, and everything that decides when each goes. It writes nothing.
-- What it reads is bounded, however many wait.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  user
-- ARGV[2]  1: what waits in other categories takes slots from these, so it is told, too
-- ARGV[3]  how many categories; of each its name and the plan, see read_plan
-- then     the notifications; of each: id, category, and for when it is not known its place, its collapse key ("":
--          none), and when it would be due in µs (0: at once)
--
-- Result   {now,
--          categories; of each, in order: {how many wait with each priority (four numbers), the first places in the
--          backlog, see put_places, what was admitted, see put_past},
--          what is later, the first of it, see put_later,
--          notifications; of each, in order: {its state (a letter, see agenda.lua; "" when it is not known), 1 when it
--          waits in its backlog, when it is due (0: not later), its place, how many of its category stand before it, 1
--          when it is deferred, the line of history of its deferral ("": none), when it was admitted last (0: never),
--          why it waits or ended, when it expires (0: never), its channel ("": not known, or it does not matter), what
--          it would replace ("": nothing), the place of that in its backlog (0: not there), how many stand before it},
--          other categories in which something waits; of each the name and how many,
--          how many are later in all}
local ARGV = ARGV
local agenda = open_agenda(ARGV[1])
local together = ARGV[2] == '1'

-- How many places are read when several backlogs have something that waits, and how many that are later.
local PLACES, LATER = 1000, 100

-- Whether some cap counts some channels only.
local channels = false

local categories, given, i = {}, {}, 4
for n = 1, tonumber(ARGV[3]) do
  local plan, after = read_plan(i + 1)
  local backlog = backlog_of(agenda, ARGV[i])
  set_plan_keys(plan, backlog.category, agenda.user)
  categories[n] = { backlog = backlog, plan = plan, renewed = {} }
  for _, cap in ipairs(plan.named) do
    if cap.channels then categories[n].channels, channels = true, true end
  end
  given[backlog.category] = categories[n]
  i = after
end

local others, busy = {}, 0
for category, backlog in pairs(agenda.backlogs) do
  if size_of(backlog) > 0 then
    busy = busy + 1
    if together and not given[category] then
      others[#others + 1] = category
      others[#others + 1] = size_of(backlog)
    end
  end
end

-- priorities_of counts what waits in a backlog by priority.
local function priorities_of(backlog)
  if size_of(backlog) == 0 then return 0, 0, 0, 0 end
  local counts = {}
  for priority = 1, 4 do
    counts[priority] =
      redis.call('ZCOUNT', backlog.key, digits((priority - 1) * BAND), '(' .. digits(priority * BAND))
  end
  return unpack(counts)
end

-- places_of returns the first places of a backlog, where they matter.
local function places_of(category)
  if size_of(category.backlog) == 0 or not category.channels and (not together or busy < 2) then return {} end
  local most = digits(math.ceil(PLACES / busy))
  return put_places({}, category.backlog.key, '-inf', '+inf', '0', most, category.channels)
end

local function told(category)
  local past, one, two, three, four = {}, priorities_of(category.backlog)
  put_past(past, category.plan)
  return { one, two, three, four, places_of(category), past }
end

local function count_before(backlog, at_place)
  return size_of(backlog) > 0 and redis.call('ZCOUNT', backlog.key, '-inf', '(' .. digits(at_place)) or 0
end

-- holder_of returns which waiting notification has a collapse key, its place in its backlog (0: it is later), and the
-- arrival that one which replaces it takes over. It returns nothing for `id` itself, or one that is newer than it.
local function holder_of(backlog, collapse, id, arrival)
  local holder = redis.call('HGET', collapse_set(backlog.category, agenda.user), collapse)
  if not holder or holder == id then return end
  local f = redis.call('HMGET', partition .. 'n:' .. holder, 's', 'l', 'v')
  if not f[3] or tonumber(f[3]) > arrival then return end
  local at_place = redis.call('ZSCORE', backlog.key, holder)
  if not at_place and not redis.call('ZSCORE', agenda.later, holder) then return end
  return holder, tonumber(at_place or 0), f[1] ~= 't' and tonumber(f[2] or f[3]) or arrival
end

-- replace returns the place that accept gives to a notification with a collapse key, and what it replaces: its id, its
-- place, and how many stand before it. One that is asked for after another with its key replaces that, and takes its
-- place unless that is scheduled.
local function replace(category, id, at_place, collapse, due)
  if collapse == '' then return at_place, '', 0, 0 end
  local arrival, taken = at_place % BAND, category.renewed[collapse]
  local holder, held_place
  if taken == nil then
    holder, held_place, taken = holder_of(category.backlog, collapse, id, arrival)
  end
  taken = taken or arrival
  category.renewed[collapse] = due <= now and taken
  at_place = at_place - arrival + taken
  if not holder then return at_place, '', 0, 0 end
  return at_place, holder, held_place, held_place > 0 and count_before(category.backlog, held_place) or 0
end

-- where_is returns where a notification stands.
local function where_is(id, category, at_place, collapse, due_then)
  local backlog = category.backlog
  local f = redis.call('HMGET', partition .. 'n:' .. id, 's', 'j', 'd', 'v', 'p', 'l', 'm', 'y', 'e', 'A')
  local due = f[1] and tonumber(redis.call('ZSCORE', agenda.later, id) or 0) or 0
  local found = f[1] and redis.call('ZSCORE', backlog.key, id)
  local replaced, held_place, before_held = '', 0, 0
  if found then
    at_place = tonumber(found)
  elseif f[1] then
    at_place = tonumber(place(tonumber(f[5]), tonumber(f[6] or f[4])))
  else
    at_place, replaced, held_place, before_held =
      replace(category, id, tonumber(at_place), collapse, tonumber(due_then))
  end
  local deferred, line = false, ''
  if found then
    deferred = was_deferred(backlog, f[2])
    if deferred and not f[3] then line = deferral_of(backlog, tonumber(f[10])) end
  end
  return { f[1] or '', found and 1 or 0, due, at_place, count_before(backlog, at_place),
    deferred and backlog.next > 0 and 1 or 0, line, tonumber(f[7] or 0), f[8] or '', tonumber(f[9] or 0),
    f[1] and category.channels and channel_at(id) or '', replaced, held_place, before_held }
end

local notifications = {}
while i <= #ARGV do
  notifications[#notifications + 1] = where_is(ARGV[i], given[ARGV[i + 1]], ARGV[i + 2], ARGV[i + 3],
    ARGV[i + 4])
  i = i + 5
end

local tracks, later, count_later = {}, {}, 0
for n, category in ipairs(categories) do tracks[n] = told(category) end
if agenda.has_later then
  put_later(later, agenda, '-inf', '0', digits(LATER), channels)
  count_later = redis.call('ZCARD', agenda.later)
end
return { now, tracks, later, notifications, others, count_later }
